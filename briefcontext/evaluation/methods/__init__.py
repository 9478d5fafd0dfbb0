"""The methods that are compared, and how their models are asked."""
