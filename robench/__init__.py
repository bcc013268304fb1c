"""robench: the robustness benchmark suite for attention variants."""
