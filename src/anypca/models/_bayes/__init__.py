"""What models share whose posterior is known by draws."""
