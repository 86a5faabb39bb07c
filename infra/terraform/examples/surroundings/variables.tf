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
