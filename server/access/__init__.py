"""Access control for every face: principals, policies, tokens, audit."""
