"""OpenID Connect: tokens of identity providers that an administrator has registered."""
