DROP TABLE :"schema".notification_reactors;
DROP TABLE :"schema".notification_jobs;
