variable "name" {
  description = "Name of the installation."
  type        = string
  nullable    = false
}

variable "location" {
  description = "Azure region."
  type        = string
  nullable    = false
}

variable "vault" {
  description = "Whether a kubeconfig with a token is to be kept."
  type        = bool
  nullable    = false
}
