"""Why flags of several servers have no effect here, for the warnings that name them."""

OWN_KERNELS = "the engine selects its kernels itself, and proves their results at load"
OWN_PAGES = "the engine selects the layout of its KV cache itself"
OWN_LOADING = "weights are read straight from their files"
NO_IMAGES = "this server reads no images, audio or video"
NO_DRAFT_MODEL = "drafts come from DRAFT_MODEL or repetitions: set SPECULATE"
TEMPLATE_MARKS_REASONING = "the chat template shows how a model marks its reasoning: see REASONING_FORMAT"
REASONING_PER_REQUEST = "a request says how much a model reasons: reasoning_effort, chat_template_kwargs"
