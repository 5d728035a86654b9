DROP TRIGGER doorbell_on_update ON :"schema".notification_jobs;
DROP TRIGGER doorbell_on_insert ON :"schema".notification_jobs;
DROP FUNCTION :"schema".doorbell_on_update();
DROP FUNCTION :"schema".doorbell_on_insert();
DROP FUNCTION :"schema".doorbell_bell();
