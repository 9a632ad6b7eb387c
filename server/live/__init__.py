"""What others are told while the process lives: systemd, Kubernetes, whoever asks the port."""
