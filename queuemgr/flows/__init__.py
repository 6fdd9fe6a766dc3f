"""What an application writes: a flow of phases and steps, and the outcomes a step may return."""
