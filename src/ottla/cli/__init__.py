"""The command `ottla`: one module per command family, nothing imported before it is needed."""
