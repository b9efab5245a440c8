"""Risk beside worth: how often the best attack guesses right whose history a message is of, and what a person likes."""
