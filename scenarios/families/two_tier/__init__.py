"""Two tiers: public users teach the model, private devices improve it with one second-order release."""
