"""The embedded default: everything that stands around the Function App in Azure, on one machine."""
