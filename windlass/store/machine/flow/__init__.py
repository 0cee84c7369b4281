"""What holds jobs up: gates, lanes and their turns, unique keys; and the claim that asks them."""
