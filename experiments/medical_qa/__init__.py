"""Medical answers: how many true claims can be kept while few of those kept are false."""
