from ottla.records.pure.survey_records import survey_records as survey_records
