"""An application of `ottla.streams`: accounts that pay more than five times in a minute."""

from ottla.streams import App, Json, String, Tumbling

app = App("payment-alerts")

payments = app.stream(
    "payments",
    key=String(),
    value=Json("account string, amount double, currency string, at timestamp"),
)
(
    payments.group_by_key()
    .windowed_by(Tumbling("1 minute", grace="10 seconds"))
    .count()
    .to_stream()
    .filter(lambda record: record.value > 5)
    .to("payment-alerts")
)
