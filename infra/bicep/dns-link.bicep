// The app's network is told the name of a private API server.

@description('Name of the installation.')
param name string

@description('Name of the private DNS zone in this resource group.')
param zoneName string

@description('Id of the app\'s network.')
param networkId string

@description('Tags on everything.')
param tags object

resource zone 'Microsoft.Network/privateDnsZones@2020-06-01' existing = {
  name: zoneName
}

resource link 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2020-06-01' = {
  parent: zone
  name: '${name}-app'
  location: 'global'
  tags: tags
  properties: {
    registrationEnabled: false
    virtualNetwork: { id: networkId }
  }
}
