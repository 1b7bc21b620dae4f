"""Which rows there are, where they lie and how they meet: graphs, identifiers, contexts, index."""
