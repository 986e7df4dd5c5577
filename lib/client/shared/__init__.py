"""What commands of several programs have in common."""
