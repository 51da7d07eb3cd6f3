from ottla.records.pure.consumer_records import consumer_records as consumer_records
