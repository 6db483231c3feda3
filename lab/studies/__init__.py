"""Studies: questions that are answered by computing, each with the page of docs that it writes."""
