"""What passes between the exporter, the topic and the app: events, and snapshots in them."""
