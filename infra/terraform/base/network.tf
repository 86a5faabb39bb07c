# How the app reaches API servers: docs/network.md. Public needs nothing; for authorised ranges the app gets a network of
# its own, out of which everything goes by one fixed address; for private ones it joins a subnet that is there.

locals {
  own_network = var.api_server_access == "authorised-ranges" ? 1 : 0
  subnet_id   = var.api_server_access == "private" ? var.subnet_id : one(azurerm_subnet.app[*].id)
  network_id  = var.api_server_access == "private" ? try(regex("^(.+)/subnets/[^/]+$", var.subnet_id)[0], null) : one(azurerm_virtual_network.app[*].id)
}

resource "azurerm_virtual_network" "app" {
  count = local.own_network

  name                = "${var.name}-network"
  resource_group_name = var.resource_group_name
  location            = var.location
  address_space       = [var.network_cidr]
  tags                = local.tags
}

resource "azurerm_subnet" "app" {
  #checkov:skip=CKV2_AZURE_31:nothing listens in it: an app's subnet is for what leaves, and a group of rules would only add a way to break that
  count = local.own_network

  name                            = "app" # no underscore: Flex Consumption takes none
  resource_group_name             = var.resource_group_name
  virtual_network_name            = azurerm_virtual_network.app[0].name
  address_prefixes                = [var.network_cidr]
  default_outbound_access_enabled = false

  delegation {
    name = "app"
    service_delegation {
      name    = "Microsoft.App/environments"
      actions = ["Microsoft.Network/virtualNetworks/subnets/join/action"]
    }
  }
}

resource "azurerm_public_ip" "outbound" {
  count = local.own_network

  name                = "${var.name}-outbound"
  resource_group_name = var.resource_group_name
  location            = var.location
  sku                 = "Standard"
  allocation_method   = "Static"
  tags                = local.tags
}

resource "azurerm_nat_gateway" "outbound" {
  count = local.own_network

  name                = "${var.name}-outbound"
  resource_group_name = var.resource_group_name
  location            = var.location
  sku_name            = "Standard"
  tags                = local.tags
}

resource "azurerm_nat_gateway_public_ip_association" "outbound" {
  count = local.own_network

  nat_gateway_id       = azurerm_nat_gateway.outbound[0].id
  public_ip_address_id = azurerm_public_ip.outbound[0].id
}

resource "azurerm_subnet_nat_gateway_association" "app" {
  count = local.own_network

  subnet_id      = azurerm_subnet.app[0].id
  nat_gateway_id = azurerm_nat_gateway.outbound[0].id
}

# Names of private API servers are known to their zones alone, and zones to the networks that they are linked with.
resource "azurerm_private_dns_zone_virtual_network_link" "api_servers" {
  for_each = var.private_dns_zone_ids

  name                = "${var.name}-app"
  private_dns_zone_id = each.value
  virtual_network_id  = local.network_id
  tags                = local.tags
}
