"""Who callers are. (Authentication and authorization come here.)"""
