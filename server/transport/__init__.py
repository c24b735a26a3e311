"""The transport: HTTP/1.1 between a socket and the application, on httptools."""
