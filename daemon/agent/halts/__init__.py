"""Why a turn may have to stop, condition by condition."""
