"""The image of a metadata log for people: what differs between two states (`words`), and an image as folders
and files (`tree`).
"""
