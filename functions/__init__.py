"""The Function App: triggers, orchestrators, activities and entities, one blueprint per capability."""
