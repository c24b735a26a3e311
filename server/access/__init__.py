"""One decision for every face: principals, policies, tokens, audit."""
