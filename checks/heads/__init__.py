"""What a model's files of weights say of themselves at their beginning."""
