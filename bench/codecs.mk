.PHONY: bench-codecs

# Bytes and speeds of the codecs on the public corpus; the page is docs/codecs.md. CORPUS=… names another corpus.
bench-codecs:
	$(CARGO) build --release --package varve-bench --bin codecs
	@mkdir -p docs
	$(TARGET)/release/codecs --write docs/codecs.md $(CORPUS)
