"""TLS: everything that reads keys and certificates, or encrypts.

settings     where keys and certificates are, and what is allowed
client       contexts of clients, and why a handshake failed
material     contexts of a node's listeners, and of its connections to other nodes
socket       a stream encrypted by TLS, with the interface of the plain socket under it
java_stores  Java's stores of keys and certificates
authority    a private certificate authority in a folder
"""
