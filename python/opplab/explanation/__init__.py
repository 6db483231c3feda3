"""Why a CPU had its frequency, why a task ran where it ran: decisions in words and numbers."""
