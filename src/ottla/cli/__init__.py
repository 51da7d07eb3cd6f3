"""The command `ottla`: one module a command family, nothing imported before it is needed."""
