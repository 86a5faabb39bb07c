"""What a cluster's entity remembers between plans, and the request budget that clusters share."""
