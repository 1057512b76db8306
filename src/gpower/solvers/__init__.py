"""Find components: one, several in sequence, or several jointly."""
