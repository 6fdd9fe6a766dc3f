"""A project of somebody else's, with the user model and the admin that its process is told; `look_around`
opens every page of ours in it."""
