"""What reads documents and writes answers: with a language model, or by copying sentences."""
