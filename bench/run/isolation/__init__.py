"""Attacks in processes of their own, which hold nothing of a victim but what the attack declared.

A zygote, forked before the process of the run has read any data, forks a process for each attack. That process gets
an `Attempt`, asks the run's process for the victim's answers to its queries, and sends back what it found as JSON and
safetensors, so that nothing of it is unpickled where the training images are.
"""
