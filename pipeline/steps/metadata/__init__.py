"""What a paper is: its title, authors and the rest, each with its source."""
