# What a cloud would answer, for Terraform's own tests.

mock_resource "azapi_resource" {
  defaults = {
    id     = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/sluice/providers/Microsoft.DurableTask/schedulers/x"
    output = "{\"properties\":{\"endpoint\":\"https://x.westeurope.durabletask.io\"}}"
  }
}
mock_data "azapi_resource" {
  defaults = {
    output = "{\"properties\":{\"oidcIssuerProfile\":{\"issuerURL\":\"https://westeurope.oic.prod-aks.azure.com/x/\"},\"fqdn\":\"training-x.hcp.westeurope.azmk8s.io\",\"nodeResourceGroup\":\"MC_aks_training_westeurope\"}}"
  }
}
