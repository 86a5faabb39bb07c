// For API servers that admit fixed addresses only: a network of the app's own, out of which everything goes by one address.

@description('Name of the installation.')
param name string

@description('Azure region of the app.')
param location string

@description('Addresses of the network; one is used by each instance of the app.')
param networkCidr string

@description('Tags on everything.')
param tags object

resource outbound_address 'Microsoft.Network/publicIPAddresses@2024-01-01' = {
  name: '${name}-outbound'
  location: location
  tags: tags
  sku: { name: 'Standard' }
  properties: { publicIPAllocationMethod: 'Static' }
}

resource gateway 'Microsoft.Network/natGateways@2024-01-01' = {
  name: '${name}-outbound'
  location: location
  tags: tags
  sku: { name: 'Standard' }
  properties: { publicIpAddresses: [{ id: outbound_address.id }] }
}

resource network 'Microsoft.Network/virtualNetworks@2024-01-01' = {
  name: '${name}-network'
  location: location
  tags: tags
  properties: { addressSpace: { addressPrefixes: [networkCidr] } }
}

// No underscore in its name: Flex Consumption takes none.
resource subnet 'Microsoft.Network/virtualNetworks/subnets@2024-01-01' = {
  parent: network
  name: 'app'
  properties: {
    addressPrefix: networkCidr
    defaultOutboundAccess: false
    natGateway: { id: gateway.id }
    delegations: [{ name: 'app', properties: { serviceName: 'Microsoft.App/environments' } }]
  }
}

output networkId string = network.id
output subnetId string = subnet.id
output outboundAddress string = outbound_address.properties.ipAddress
