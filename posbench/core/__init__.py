"""What scores are computed with: attention, methods, tasks, training and evaluation.

All of it but `settings` is under the hash of a record: changing it outdates records.
"""
