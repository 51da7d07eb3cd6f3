"""The security settings of single listeners: TLS and SASL."""
