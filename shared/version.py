"""Which version of Sluice this is: what runs in Azure was uploaded without a package's metadata."""

VERSION = "0.1.0"
