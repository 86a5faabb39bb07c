"""A Durable Functions backend for one machine: azure-functions-durable's own protocol, on either clock."""
