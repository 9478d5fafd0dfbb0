"""What is read out of a model's reply: records, choices, answers, and quotes looked up in their documents."""
