"""What users give, as checked values: scenarios, policies, mechanisms, files of settings; and how commands end."""
