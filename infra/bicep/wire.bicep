// Stage two of two: events begin to flow. Deploy it once the app was published and answers.

@description('Output `appId` of base.bicep.')
param appId string

@description('Name of the installation, as in base.bicep.')
param name string

@description('Output `storageAccountId` of base.bicep: dead letters go there.')
param storageAccountId string

@minLength(1)
@description('Output `topics` of base.bicep: ids of topics by cluster.')
param topics { cluster: string, id: string }[]

@description('Take Azure\'s own events about preempted VMs of this subscription, too: its id, /subscriptions/<id>. A preview of Azure\'s.')
param evictionNotices string?

var eventTypes = [
  'sluice.node.evicting'
  'sluice.node.idle'
  'sluice.node.joined'
  'sluice.pods.unschedulable'
]

resource existing_topics 'Microsoft.EventGrid/topics@2024-06-01-preview' existing = [
  for topic in topics: {
    name: last(split(topic.id, '/'))
  }
]

resource ingest 'Microsoft.EventGrid/topics/eventSubscriptions@2024-06-01-preview' = [
  for (topic, number) in topics: {
    parent: existing_topics[number]
    name: 'sluice-ingest'
    properties: {
      eventDeliverySchema: 'CloudEventSchemaV1_0'
      filter: { includedEventTypes: eventTypes }
      destination: {
        endpointType: 'AzureFunction'
        properties: {
          resourceId: '${appId}/functions/ingest'
          maxEventsPerBatch: 10
          preferredBatchSizeInKilobytes: 256
        }
      }
      retryPolicy: { maxDeliveryAttempts: 30, eventTimeToLiveInMinutes: 60 }
      deadLetterWithResourceIdentity: {
        identity: { type: 'SystemAssigned' }
        deadLetterDestination: {
          endpointType: 'StorageBlob'
          properties: { resourceId: storageAccountId, blobContainerName: 'dead-letters' }
        }
      }
    }
  }
]

// What Azure says of evicted Spot VMs after the fact.
resource health 'Microsoft.EventGrid/systemTopics@2024-06-01-preview' = if (evictionNotices != null) {
  name: '${name}-vm-health'
  location: 'global'
  properties: {
    source: evictionNotices!
    topicType: 'Microsoft.ResourceNotifications.HealthResources'
  }
}

resource evictions 'Microsoft.EventGrid/systemTopics/eventSubscriptions@2024-06-01-preview' = if (evictionNotices != null) {
  parent: health
  name: 'sluice-evictions'
  properties: {
    eventDeliverySchema: 'CloudEventSchemaV1_0'
    filter: {
      includedEventTypes: ['Microsoft.ResourceNotifications.HealthResources.ResourceAnnotated']
      advancedFilters: [
        {
          operatorType: 'StringIn'
          key: 'data.resourceInfo.properties.annotationName'
          values: ['VirtualMachinePreempted']
        }
      ]
    }
    destination: {
      endpointType: 'AzureFunction'
      properties: { resourceId: '${appId}/functions/ingest' }
    }
    retryPolicy: { maxDeliveryAttempts: 30, eventTimeToLiveInMinutes: 60 }
  }
}
