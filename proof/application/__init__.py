"""The application under proof: that of the project, a flow of hostile code, and storage that fails on
demand. Every process of the fleet runs with `proof.application.settings`."""
