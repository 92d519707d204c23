"""h2oGPT's servers, which gradio makes."""
